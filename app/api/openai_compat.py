"""The OpenAI-compatible door. For now the list of models, which says plainly what answers."""

from fastapi import APIRouter
from pydantic import BaseModel


class ModelCard(BaseModel):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "turnstream"
    description: str


class ModelList(BaseModel):
    object: str = "list"
    data: list[ModelCard]


def router(name: str, description: str) -> APIRouter:
    """The routes for the one configured model."""
    routes = APIRouter(prefix="/v1", tags=["openai"])

    @routes.get("/models")
    async def models() -> ModelList:
        """The model that answers, and what it is."""
        return ModelList(data=[ModelCard(id=name, description=description)])

    return routes
