"""The filesystem app: looking around among the files. Six plain tools, the same in both modes.

Nothing heavy is imported here; `looking.py` holds listings, searches and metadata, `reading.py` text and images. Used
by the server process.
"""

from __future__ import annotations

from pydantic import Field

from envkit.harnesses.archipelago.servers.app import App, Arguments, Tool

__all__ = ["APP"]


class ListFiles(Arguments):
    path: str = Field(default="/", description="The folder; / is the root")


class ReadImageFile(Arguments):
    file_path: str = Field(description="An image: png, jpg, gif, webp, bmp or tiff")


class ReadTextFile(Arguments):
    file_path: str = Field(description="The file")
    encoding: str | None = Field(default=None, description="e.g. utf-8 or latin-1; found out where it is left out")
    max_size: int | None = Field(default=None, ge=1, description="The most bytes to read, from the beginning")


class SearchFiles(Arguments):
    pattern: str = Field(description="A glob: *.xlsx anywhere below path; reports/**/*.pdf for paths. No case")
    path: str = Field(default="/", description="The folder to search in")
    recursive: bool = Field(default=True, description="Whether folders below it are searched too")
    max_results: int = Field(default=100, ge=1, le=10_000)


class GetFileMetadata(Arguments):
    file_path: str = Field(description="A file or folder")


class GetDirectoryTree(Arguments):
    path: str = Field(default="/", description="The folder at the top")
    max_depth: int = Field(default=3, ge=1, le=50, description="How many levels of folders are shown")
    include_files: bool = Field(default=True)
    show_size: bool = Field(default=False)


APP = App(
    name="filesystem",
    server="filesystem_server",
    package="filesystem",
    tools=(
        Tool("list_files", "List a folder: names, kinds and sizes, sorted.", ListFiles, "looking:list_files"),
        Tool("read_image_file", "Look at an image file.", ReadImageFile, "reading:read_image_file"),
        Tool(
            "read_text_file",
            "Read a text file. For workbooks, documents, decks and PDFs use their own tools.",
            ReadTextFile,
            "reading:read_text_file",
        ),
        Tool("search_files", "Find files and folders by name or path.", SearchFiles, "looking:search_files"),
        Tool(
            "get_file_metadata",
            "Size, type, times and permissions of a file or folder.",
            GetFileMetadata,
            "looking:get_file_metadata",
        ),
        Tool("get_directory_tree", "Show folders and files as a tree.", GetDirectoryTree, "looking:get_directory_tree"),
    ),
)
